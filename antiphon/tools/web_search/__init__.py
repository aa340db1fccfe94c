"""`web_search`: the gateway searches the web, opens what it found and reads it, for any model."""
