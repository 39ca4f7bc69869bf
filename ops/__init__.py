"""The native custom ops: `build` builds them, `ops` hands them out.  Importing this imports neither Paddle nor CUDA."""
