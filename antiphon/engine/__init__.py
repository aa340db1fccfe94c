"""A turn from request to events: context, policy, providers, store."""
