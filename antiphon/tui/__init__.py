"""`antiphon chat`: a terminal interface on the public client, for any Open Responses server."""
