"""What a call changes: the files that edit tools and patches write, and whether all of it is inside of the project."""
