// y[i] = x[i] - x[i - 1] along an axis, y[0] = x[0], then the post-operations, on float or half tensors.
//
// Grid: one work-item an element, n of them. table: dims, views of y and x; the axis is counted last.
// Error: one rounding, then that of each post-operation.
#include "tensor.clh"

__kernel void difference_ref(const int n, TENSOR(in0), TENSOR(out0), __global const int* table, POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const T* source = BASE_OF(const T, in0) + element(x, at);
  const float before = at[RANK - 1] ? LOAD(source, -x[RANK]) : 0.0f;
  const float r = LOAD(source, 0) - before;
  STORE(BASE_OF(T, out0), element(y, at), POST_ALL(r, at));
}
