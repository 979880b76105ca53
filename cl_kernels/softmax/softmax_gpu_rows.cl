// Softmax of each row, or its logarithm, with post-operations, for GPUs: a group of work-items a row; float or half tensors.
//
// Grid: (rows * GROUP), groups of GROUP. The last axis counted is that of the row, whose elements lie behind one another;
// the others are those of the rows. table: dims, views of y and x, whether the logarithm is wanted.
// Error, with k elements and d the difference to the row's maximum: (k / GROUP + log2 GROUP + |d| + 14) * 2^-24 relative;
// the logarithm is off by (k / GROUP + log2 GROUP + 9) * 2^-24 plus an ulp of the result.
#include "group_rows.clh"

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void softmax_gpu_rows(
    TENSOR(in0), TENSOR(out0), __global const int* table, POST_PARAMETERS) {
  __local float part[GROUP];
  const int id = get_local_id(0), count = table[RANK - 1] / LANES;
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  int at[RANK];
  coordinates(get_group_id(0), table, 0, RANK - 1, at);
  at[RANK - 1] = 0;
  __global const T* source = BASE_OF(const T, in0) + element(x, at);
  VECTOR held[HELD_VECTORS], larger = (VECTOR)(-INFINITY), total = (VECTOR)(0.0f);
#pragma unroll
  for (int j = 0; j < HELD_VECTORS; j++) {
    held[j] = id + j * GROUP < count ? LOADV(source, (id + j * GROUP) * LANES) : (VECTOR)(-INFINITY);
    larger = vector_larger(held[j], larger);
  }
  for (int i = id + HELD_VECTORS * GROUP; i < count; i += GROUP)
    larger = vector_larger(LOADV(source, i * LANES), larger);
  const float most = group_max(VECTOR_FOLD(group_larger, larger), part);
#pragma unroll
  for (int j = 0; j < HELD_VECTORS; j++)
    if (id + j * GROUP < count) total += post_exp(held[j] - most);
  for (int i = id + HELD_VECTORS * GROUP; i < count; i += GROUP) total += post_exp(LOADV(source, i * LANES) - most);
  const float sum = group_sum(VECTOR_FOLD(PLUS, total), part), logarithm = log(sum);
#pragma unroll 1
  for (int j = 0; id + j * GROUP < count; j++) {
    at[RANK - 1] = (id + j * GROUP) * LANES;
    const VECTOR own = take_held(held), v = (j < HELD_VECTORS ? own : LOADV(source, at[RANK - 1])) - most;
    const VECTOR r = x[VIEW] ? v - logarithm : post_exp(v) / sum;
    STOREV(BASE_OF(T, out0), element(y, at), POST_ALL(r, at));
  }
}
