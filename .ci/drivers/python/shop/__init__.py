"""A Django application with two tables."""
