"""Images and files inside a request: data URLs, file types, image sizes."""
