"""How fast it is, beside others, in one run: `nox -s bench`. Nothing here is shipped."""
