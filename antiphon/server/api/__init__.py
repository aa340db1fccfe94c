"""The API described: its operations, its objects, and the OpenAPI document made from both."""
