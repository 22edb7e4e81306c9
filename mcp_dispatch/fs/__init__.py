"""Files: the workspace, safe opening and replacing, the state folder."""
