"""The demonstration: a small upstream server and a guided tour."""
