// y = f(x), element by element, on tensors of floats, then the post-operations.
//
// Grid: one work-item an element, n of them. table: dims, view of y, view of x, code, alpha, beta.
// Error: that of the function in post_apply.clh, then of each post-operation.
#include "tensor.clh"

__kernel void activation_ref(const int n, TENSOR(in0), TENSOR(out0), __global const int* table, POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* f = x + VIEW;
  const REAL v = LOAD(BASE_OF(const T, in0), element(x, at));
  const REAL r = post_apply(f[0], v, v, PARAMETER(f + 1, 0), PARAMETER(f + 1, 1));
  STORE(BASE_OF(T, out0), element(y, at), POST_ALL(r, at));
}
