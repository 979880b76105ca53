// Each row minus its mean, divided by its deviation, times scale plus bias, with post-operations; tensors of floats.
//
// Grid: one work-item a row, n of them. The axes of the rows are counted first, `kept` of them, then those of the row,
// `count` elements. table: dims, views of y, x, scale and bias, kept, count, whether there is a bias, whether
// the mean is taken off; else it counts as 0.
// Sums are made of sums of 64. Error, with k elements a row, n = 64 + k / 64 and v = |x - mean| / deviation:
// ((n + 5) * mean |x| / deviation * (1 + 2 v) + (n / 2 + 20) * v) * 2^-24 * |scale|, and an ulp of |bias|.
#include "tensor.clh"

__kernel void layer_normalization_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(out0),
                                      __global const int* table, const float epsilon, POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* scale = x + VIEW;
  __global const int* bias = scale + VIEW;
  __global const int* rest = bias + VIEW;
  __global const T* source = BASE_OF(const T, in0);
  const int kept = rest[0], count = rest[1];
  coordinates(id, table, 0, kept, at);
  REAL sum = 0.0f, squares = 0.0f, part = 0.0f;
  for (int i = 0; i < count; i++) {
    coordinates(i, table, kept, RANK, at);
    part += LOAD(source, element(x, at));
    if (i % 64 == 63) {
      sum += part;
      part = 0.0f;
    }
  }
  const REAL mean = rest[3] ? (sum + part) / (REAL)count : (REAL)0;
  part = 0.0f;
  for (int i = 0; i < count; i++) {
    coordinates(i, table, kept, RANK, at);
    const REAL v = LOAD(source, element(x, at)) - mean;
    part = fma(v, v, part);
    if (i % 64 == 63) {
      squares += part;
      part = 0.0f;
    }
  }
  const REAL factor = 1.0f / sqrt((squares + part) / (REAL)count + epsilon);
  for (int i = 0; i < count; i++) {
    coordinates(i, table, kept, RANK, at);
    const REAL v = (LOAD(source, element(x, at)) - mean) * factor * LOAD(BASE_OF(const T, in1), element(scale, at));
    const REAL r = rest[2] ? v + LOAD(BASE_OF(const T, in2), element(bias, at)) : v;
    STORE(BASE_OF(T, out0), element(y, at), POST_ALL(r, at));
  }
}
