// y[behind] = 0: a write that a test looks for. table: behind.
#include "tensor.clh"

__kernel void spill_test(TENSOR(out0), __global const int* table) { BASE_OF(T, out0)[table[0]] = 0; }
