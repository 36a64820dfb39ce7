"""Keep the documents of permits in one table of a SQL database."""
