"""Steps that several functions share: read, let core decide, act."""
