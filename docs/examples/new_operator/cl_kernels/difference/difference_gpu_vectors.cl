// y[i] = x[i] - x[i - 1] along an axis, y[0] = x[0], a vector of 4 elements a work-item, on float or half tensors, then
// the post-operations. For GPUs.
//
// Grid: one work-item a vector, n of them. table: dims (the axis first, the last in vectors), views of y and x.
// Error: one rounding, then that of each post-operation.
#include "vectors.clh"

__kernel void difference_gpu_vectors(const int n, TENSOR(in0), TENSOR(out0), __global const int* table,
                                     POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  at[RANK - 1] *= LANES;
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const T* source = BASE_OF(const T, in0);
  const long here = element(x, at);
  VECTOR r = LOADV(source, here);
  if (at[0]) r -= LOADV(source, here - x[1]);
  STOREV(BASE_OF(T, out0), element(y, at), POST_ALL(r, at));
}
