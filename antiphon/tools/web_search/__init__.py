"""`web_search`: the gateway searches the web, opens pages that it found and reads them, for any model."""
