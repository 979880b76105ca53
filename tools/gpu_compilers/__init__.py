"""What ``tools/compile_gpu`` does: kernels through the compilers of GPUs that are not there. Nothing is run."""
