"""From clusters of operations to LLVM IR, as text."""
