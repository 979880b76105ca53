// Softmax of each row, or its logarithm, with post-operations, on tensors of floats.
//
// Grid: one work-item a row, n of them. The axes of the rows are counted first, `kept` of them, then those of the row,
// `count` elements. table: dims, views of y and x, kept, count, whether the logarithm is wanted.
// The sum is made of sums of 64. Error, with k elements and d the difference to the row's maximum:
// (64 + k / 64 + |d| + 22) * 2^-24 relative; the logarithm is off by (64 + k / 64 + 9) * 2^-24 plus an ulp of the result.
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
  REAL most = -INFINITY, sum = 0.0f, part = 0.0f;
  for (int i = 0; i < count; i++) {
    coordinates(i, table, kept, RANK, at);
    const REAL v = LOAD(source, element(x, at));
    most = v > most || v != v ? v : most;
  }
  for (int i = 0; i < count; i++) {
    coordinates(i, table, kept, RANK, at);
    part += post_exp(LOAD(source, element(x, at)) - most);
    if (i % 64 == 63) {
      sum += part;
      part = 0.0f;
    }
  }
  sum += part;
  const REAL logarithm = log(sum);
  for (int i = 0; i < count; i++) {
    coordinates(i, table, kept, RANK, at);
    const REAL v = LOAD(source, element(x, at)) - most;
    const REAL r = rest[2] ? v - logarithm : post_exp(v) / sum;
    STORE(BASE_OF(T, out0), element(y, at), POST_ALL(r, at));
  }
}
