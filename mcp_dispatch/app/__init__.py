"""The running application: options, settings to live objects, reload."""
