// Softmax of each row, or its logarithm, with post-operations, for GPUs: a group of work-items a row; float or half tensors.
//
// Grid: (rows * GROUP), groups of GROUP. The last axis counted is that of the row, whose elements lie behind one another;
// the others are those of the rows. table: dims, views of y and x, whether the logarithm is wanted.
// Error, with k elements and d the difference to the row's maximum: (k / GROUP + log2 GROUP + |d| + 14) * 2^-24 relative;
// the logarithm is off by (k / GROUP + log2 GROUP + 9) * 2^-24 plus an ulp of the result.
#include "tensor.clh"
#include "group.clh"

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void softmax_gpu_rows(
    TENSOR(in0), TENSOR(out0), __global const int* table, POST_PARAMETERS) {
  __local float part[GROUP];
  const int id = get_local_id(0), count = table[RANK - 1];
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  int at[RANK];
  coordinates(get_group_id(0), table, 0, RANK - 1, at);
  at[RANK - 1] = 0;
  __global const T* source = BASE_OF(const T, in0) + element(x, at);
  float held[HELD], most = -INFINITY, sum = 0.0f;
  for (int j = 0; j < HELD; j++) {
    held[j] = id + j * GROUP < count ? LOAD(source, id + j * GROUP) : -INFINITY;
    most = group_larger(held[j], most);
  }
  for (int i = id + HELD * GROUP; i < count; i += GROUP) most = group_larger(LOAD(source, i), most);
  most = group_max(most, part);
  for (int j = 0; j < HELD; j++)
    if (id + j * GROUP < count) sum += post_exp(held[j] - most);
  for (int i = id + HELD * GROUP; i < count; i += GROUP) sum += post_exp(LOAD(source, i) - most);
  sum = group_sum(sum, part);
  const float logarithm = log(sum);
  for (int j = 0; id + j * GROUP < count; j++) {
    at[RANK - 1] = id + j * GROUP;
    const float v = (j < HELD ? held[j] : LOAD(source, at[RANK - 1])) - most;
    const float r = x[VIEW] ? v - logarithm : post_exp(v) / sum;
    STORE(BASE_OF(T, out0), element(y, at), POST_ALL(r, at));
  }
}
