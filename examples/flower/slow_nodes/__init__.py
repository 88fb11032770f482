"""A Flower app in which slow nodes hold a class that nobody else has."""
