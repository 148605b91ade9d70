"""The studio: the page where stewards and analysts work. It stands on the service's desk and knows no data of its own."""
