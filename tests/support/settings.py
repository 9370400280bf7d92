"""The settings of servers that tests start: the product's own, but passwords are hashed quickly.

The people of such a server need no slow hash; its half second of CPU at every start and sign-in was a tenth of the
suite. `Server(…, bare=True)` starts the product as it is.
"""

from django.conf import global_settings

from dashboard.settings import *  # noqa: F403 - whatever there is

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher", *global_settings.PASSWORD_HASHERS]
