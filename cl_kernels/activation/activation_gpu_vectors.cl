// y = f(x), a vector of 4 or 8 elements a work-item, on float or half tensors, then the post-operations. For GPUs.
//
// Grid: one work-item a vector, n of them. table: dims (the last in vectors), view of y, view of x, code, alpha, beta
// (bits of floats). Error: that of the function in post_apply.clh, then of each post-operation.
#include "vectors.clh"

__kernel void activation_gpu_vectors(const int n, TENSOR(in0), TENSOR(out0), __global const int* table,
                                     POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  at[RANK - 1] *= LANES;
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* f = x + VIEW;
  const VECTOR v = vector_operand(BASE_OF(const T, in0), element(x, at), x[RANK]);
  const VECTOR r = post_apply(f[0], v, v, as_float(f[1]), as_float(f[2]));
  STOREV(BASE_OF(T, out0), element(y, at), POST_ALL(r, at));
}
