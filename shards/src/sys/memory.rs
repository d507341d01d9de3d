//! Memory of the arenas. The store's side of this room.
