"""A small web shop: orders arrive over HTTP, and jobs charge and confirm them."""
