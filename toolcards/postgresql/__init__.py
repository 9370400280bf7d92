"""Django's PostgreSQL backend with connections that outlive a restart of the server: see `base`."""
