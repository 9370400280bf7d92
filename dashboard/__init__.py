"""The site: pages and everything a person sees; `environment` reads the TOOLCARDS_* variables, `settings` uses them."""
