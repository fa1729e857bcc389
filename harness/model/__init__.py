"""Frozen types that cross rooms, and the pure functions that every room needs."""
