"""What people look at: the live page, its JSON, and the report as text and HTML. One vocabulary for all of them."""
