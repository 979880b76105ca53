// Sums, means, extrema and norms of each row, with post-operations, for GPUs: a group of work-items a row; float or half.
//
// Grid: (rows * GROUP), groups of GROUP. The last axis counted is that of the row, whose elements lie behind one another;
// the others are those of the rows. table: dims, views of y and x, function: 0 sum, 1 mean, 2 max, 3 min, 4 product, 5 of
// absolute values, 6 root of the sum of squares, 7 sum of squares, 8 logarithm of the sum, 9 of the sum of exponentials.
// Error: that of the sum in group.clh (exponentials: |x - max| + 6 more), then a rounding of each operation behind it; a
// product: k * 2^-24 relative; extrema are exact, and NaN where there is one.
#include "tensor.clh"
#include "group.clh"

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void reduce_gpu_rows(
    TENSOR(in0), TENSOR(out0), __global const int* table, POST_PARAMETERS) {
  __local float part[GROUP];
  const int id = get_local_id(0), count = table[RANK - 1];
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  const int function = x[VIEW];
  int at[RANK];
  coordinates(get_group_id(0), table, 0, RANK - 1, at);
  at[RANK - 1] = 0;
  __global const T* source = BASE_OF(const T, in0) + element(x, at);
  float sum = 0.0f, product = 1.0f, most = -INFINITY;
  for (int i = id; i < count; i += GROUP) {
    const float v = LOAD(source, i);
    sum += function == 5 ? fabs(v) : function == 6 || function == 7 ? v * v : v;
    product *= v;
    most = group_larger(function == 3 ? -v : v, most);
  }
  float r;
  if (function == 2 || function == 3 || function == 9) {
    r = group_max(most, part);
    r = function == 3 ? -r : r;
  } else if (function == 4) {
    r = group_product(product, part);
  } else {
    r = group_sum(sum, part);
  }
  if (function == 9) {
    const float top = isfinite(r) ? r : 0.0f;
    sum = 0.0f;
    for (int i = id; i < count; i += GROUP) sum += exp(LOAD(source, i) - top);
    r = log(group_sum(sum, part)) + top;
  }
  r = function == 1 ? r / (float)count : function == 6 ? sqrt(r) : function == 8 ? log(r) : r;
  if (id == 0) STORE(BASE_OF(T, out0), element(y, at), POST_ALL(r, at));
}
