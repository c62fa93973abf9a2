"""The engine: tensors, the tape, dispatch and the backward pass. No operation is defined here."""
