// Each row minus its mean, divided by its deviation, times scale plus bias, with post-operations, for GPUs: a group of
// work-items a row; float or half tensors.
//
// Grid: (rows * GROUP), groups of GROUP. The last axis counted is that of the row, whose elements lie behind one another;
// the others are those of the rows. table: dims, views of y, x, scale and bias, whether there is a bias,
// whether the mean is taken off; else it counts as 0.
// Error, with k elements a row, n = k / GROUP + log2 GROUP and v = |x - mean| / deviation:
// ((n + 5) * mean |x| / deviation * (1 + 2 v) + (n / 2 + 20) * v) * 2^-24 * |scale|, and an ulp of |bias|.
#include "group_rows.clh"

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void layer_normalization_gpu_rows(
    TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(out0), __global const int* table, const float epsilon,
    POST_PARAMETERS) {
  __local float part[GROUP];
  const int id = get_local_id(0), length = table[RANK - 1], count = length / LANES;
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* scale = x + VIEW;
  __global const int* bias = scale + VIEW;
  int at[RANK];
  coordinates(get_group_id(0), table, 0, RANK - 1, at);
  at[RANK - 1] = 0;
  __global const T* source = BASE_OF(const T, in0) + element(x, at);
  VECTOR held[HELD_VECTORS], sum = (VECTOR)(0.0f), squares = (VECTOR)(0.0f);
#pragma unroll
  for (int j = 0; j < HELD_VECTORS; j++) {
    held[j] = id + j * GROUP < count ? LOADV(source, (id + j * GROUP) * LANES) : (VECTOR)(0.0f);
    sum += held[j];
  }
  for (int i = id + HELD_VECTORS * GROUP; i < count; i += GROUP) sum += LOADV(source, i * LANES);
  const float mean = bias[VIEW + 1] ? group_sum(VECTOR_FOLD(PLUS, sum), part) / (float)length : 0.0f;
#pragma unroll
  for (int j = 0; j < HELD_VECTORS; j++)
    if (id + j * GROUP < count) squares = fma(held[j] - mean, held[j] - mean, squares);
  for (int i = id + HELD_VECTORS * GROUP; i < count; i += GROUP) {
    const VECTOR v = LOADV(source, i * LANES) - mean;
    squares = fma(v, v, squares);
  }
  const float factor = 1.0f / sqrt(group_sum(VECTOR_FOLD(PLUS, squares), part) / (float)length + epsilon);
#pragma unroll 1
  for (int j = 0; id + j * GROUP < count; j++) {
    at[RANK - 1] = (id + j * GROUP) * LANES;
    const VECTOR own = take_held(held), v = (j < HELD_VECTORS ? own : LOADV(source, at[RANK - 1])) - mean;
    VECTOR r = v * factor * vector_operand(BASE_OF(const T, in1), element(scale, at), scale[RANK]);
    if (bias[VIEW]) r += vector_operand(BASE_OF(const T, in2), element(bias, at), bias[RANK]);
    STOREV(BASE_OF(T, out0), element(y, at), POST_ALL(r, at));
  }
}
