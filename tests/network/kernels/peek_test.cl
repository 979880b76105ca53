// y[i] = x[i] + 0 * x[i + 1]: reads one element that it says nothing of. Grid: the elements.
#include "tensor.clh"

__kernel void peek_test(TENSOR(in0), TENSOR(out0), __global const int* table) {
  const int i = get_global_id(0);
  if (i >= table[0]) return;
  __global const float* x = BASE_OF(const float, in0);
  BASE_OF(float, out0)[i] = x[i] + 0.0f * x[i + 1];
}
