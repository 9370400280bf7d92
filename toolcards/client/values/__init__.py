"""What goes into a tool and comes out of it: schemas, repair of inputs, results and errors as JSON."""
