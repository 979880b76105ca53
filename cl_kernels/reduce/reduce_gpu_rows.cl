// Sums, means, extrema and norms of each row, with post-operations, for GPUs: a group of work-items a row; float or half.
//
// Grid: (rows * GROUP), groups of GROUP. The last axis counted is that of the row, whose elements lie behind one another;
// the others are those of the rows. table: dims, views of y and x, function: 0 sum, 1 mean, 2 max, 3 min, 4 product, 5 of
// absolute values, 6 root of the sum of squares, 7 sum of squares, 8 logarithm of the sum, 9 of the sum of exponentials.
// Error: that of the sum in group.clh (exponentials: |x - max| + 6 more), then a rounding of each operation behind it; a
// product: k * 2^-24 relative; extrema are exact, and NaN where there is one.
#include "group_rows.clh"

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void reduce_gpu_rows(
    TENSOR(in0), TENSOR(out0), __global const int* table, POST_PARAMETERS) {
  __local float part[GROUP];
  const int id = get_local_id(0), length = table[RANK - 1], count = length / LANES;
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  const int function = x[VIEW];
  int at[RANK];
  coordinates(get_group_id(0), table, 0, RANK - 1, at);
  at[RANK - 1] = 0;
  __global const T* source = BASE_OF(const T, in0) + element(x, at);
  VECTOR sum = (VECTOR)(0.0f), product = (VECTOR)(1.0f), larger = (VECTOR)(-INFINITY);
  for (int i = id; i < count; i += GROUP) {
    const VECTOR v = LOADV(source, i * LANES);
    sum += function == 5 ? fabs(v) : function == 6 || function == 7 ? v * v : v;
    product *= v;
    larger = vector_larger(function == 3 ? -v : v, larger);
  }
  float r;
  if (function == 2 || function == 3 || function == 9) {
    r = group_max(VECTOR_FOLD(group_larger, larger), part);
    r = function == 3 ? -r : r;
  } else if (function == 4) {
    r = group_product(VECTOR_FOLD(TIMES, product), part);
  } else {
    r = group_sum(VECTOR_FOLD(PLUS, sum), part);
  }
  if (function == 9) {
    const float top = isfinite(r) ? r : 0.0f;
    sum = (VECTOR)(0.0f);
    for (int i = id; i < count; i += GROUP) sum += exp(LOADV(source, i * LANES) - top);
    r = log(group_sum(VECTOR_FOLD(PLUS, sum), part)) + top;
  }
  r = function == 1 ? r / (float)length : function == 6 ? sqrt(r) : function == 8 ? log(r) : r;
  if (id) return;
  const VECTOR all = POST_ALL((VECTOR)(r), at);
  STORE(BASE_OF(T, out0), element(y, at), VECTOR_FOLD(FIRST, all));
}
