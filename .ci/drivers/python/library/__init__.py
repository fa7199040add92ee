"""A Django application whose tables come by migrations."""
