"""A result that holds NaN, which is no JSON."""

from raw import serve, text

serve(lambda name, arguments, message: text("not a number", structuredContent={"value": float("nan")}))
