// Softmax of each row, or its logarithm, with post-operations, on float or half tensors.
//
// Grid: one work-item a row, n of them. The axes of the rows are counted first, `kept` of them, then those of the row,
// `count` elements. table: dims, views of y and x, kept, count, whether the logarithm is wanted.
// Error: with e the device's ulps of exp (3 at full profile) and k elements, (2 e + k + 2) * 2^-24 relative; the
// logarithm is off by (e + k + 5) * 2^-24 absolute plus an ulp of the result.
#include "tensor.clh"

__kernel void softmax_ref(const int n, TENSOR(in0), TENSOR(out0), __global const int* table, POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* rest = x + VIEW;
  __global const T* source = BASE_OF(const T, in0);
  const int kept = rest[0], count = rest[1];
  coordinates(id, table, 0, kept, at);
  float most = -INFINITY, sum = 0.0f;
  for (int i = 0; i < count; i++) {
    coordinates(i, table, kept, RANK, at);
    const float v = LOAD(source, element(x, at));
    most = v > most || v != v ? v : most;
  }
  for (int i = 0; i < count; i++) {
    coordinates(i, table, kept, RANK, at);
    sum += exp(LOAD(source, element(x, at)) - most);
  }
  const float logarithm = log(sum);
  for (int i = 0; i < count; i++) {
    coordinates(i, table, kept, RANK, at);
    const float v = LOAD(source, element(x, at)) - most;
    const float r = rest[2] ? v - logarithm : exp(v) / sum;
    STORE(BASE_OF(T, out0), element(y, at), POST_ALL(r, at));
  }
}
