"""The search for a machine: spaces, tasks, the front of what is best, and the page that shows it."""
