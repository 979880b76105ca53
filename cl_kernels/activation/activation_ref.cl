// y = f(x), element by element, on tensors of floats, then the post-operations.
//
// Grid: one work-item a line (tensor.clh), n of them. table: dims and line, view of y, view of x, code, alpha, beta.
// Error: that of the function in post_apply.clh, then of each post-operation.
#include "tensor.clh"

__kernel void activation_ref(const int n, TENSOR(in0), TENSOR(out0),
                             __global const int* restrict table, POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  const int end = line_of(id, table, at);
  __global const int* y = table + LINE;
  __global const int* x = y + VIEW;
  __global const int* f = x + VIEW;
  for (; at[RANK - 1] < end; at[RANK - 1]++) {
    const REAL v = LOAD(BASE_OF(const T, in0), element(x, at));
    const REAL r = post_apply(f[0], v, v, PARAMETER(f + 1, 0), PARAMETER(f + 1, 1));
    STORE(BASE_OF(T, out0), element(y, at), POST_ALL(r, at));
  }
}
