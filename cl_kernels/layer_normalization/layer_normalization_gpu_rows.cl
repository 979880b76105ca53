// Each row minus its mean, divided by its deviation, times scale plus bias, with post-operations, for GPUs: a group of
// work-items a row; float or half tensors.
//
// Grid: (rows * GROUP), groups of GROUP. The last axis counted is that of the row, whose elements lie behind one another;
// the others are those of the rows. table: dims, views of y, x, scale and bias, whether there is a bias.
// Error, with k elements a row, n = k / GROUP + log2 GROUP and v = |x - mean| / deviation:
// ((n + 5) * mean |x| / deviation * (1 + 2 v) + (n / 2 + 20) * v) * 2^-24 * |scale|, and an ulp of |bias|.
#include "tensor.clh"
#include "group.clh"

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void layer_normalization_gpu_rows(
    TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(out0), __global const int* table, const float epsilon,
    POST_PARAMETERS) {
  __local float part[GROUP];
  const int id = get_local_id(0), count = table[RANK - 1];
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* scale = x + VIEW;
  __global const int* bias = scale + VIEW;
  int at[RANK];
  coordinates(get_group_id(0), table, 0, RANK - 1, at);
  at[RANK - 1] = 0;
  __global const T* source = BASE_OF(const T, in0) + element(x, at);
  float held[HELD], sum = 0.0f, squares = 0.0f;
  for (int j = 0; j < HELD; j++) {
    held[j] = id + j * GROUP < count ? LOAD(source, id + j * GROUP) : 0.0f;
    sum += held[j];
  }
  for (int i = id + HELD * GROUP; i < count; i += GROUP) sum += LOAD(source, i);
  const float mean = group_sum(sum, part) / (float)count;
  for (int j = 0; j < HELD; j++)
    if (id + j * GROUP < count) squares = fma(held[j] - mean, held[j] - mean, squares);
  for (int i = id + HELD * GROUP; i < count; i += GROUP) {
    const float v = LOAD(source, i) - mean;
    squares = fma(v, v, squares);
  }
  const float factor = 1.0f / sqrt(group_sum(squares, part) / (float)count + epsilon);
  for (int j = 0; id + j * GROUP < count; j++) {
    at[RANK - 1] = id + j * GROUP;
    const float v = (j < HELD ? held[j] : LOAD(source, at[RANK - 1])) - mean;
    const float scaled = v * factor * LOAD(BASE_OF(const T, in1), element(scale, at));
    const float r = bias[VIEW] ? scaled + LOAD(BASE_OF(const T, in2), element(bias, at)) : scaled;
    STORE(BASE_OF(T, out0), element(y, at), POST_ALL(r, at));
  }
}
