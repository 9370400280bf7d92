"""The site: settings, pages and everything a person sees."""
