"""Help: the documents of the project as pages, and the API as an OpenAPI document."""
