"""The settings of servers that tests start: the product's own with fast password hashing.

The slow hash, half a second of CPU at every start and sign-in, was a tenth of the suite. `Server(…, bare=True)` starts
the product unchanged. Browsers of tests ask for the files of pages once, not again after a minute.
"""

from django.conf import global_settings

from dashboard.settings import *  # noqa: F403 - whatever there is

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher", *global_settings.PASSWORD_HASHERS]
SERVESTATIC_MAX_AGE = 3600
