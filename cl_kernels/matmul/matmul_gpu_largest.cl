// The largest finite magnitudes of the entries of two float tensors, each in parts, for products of halves that have to be scaled
// (PRODUCT_F16X3 of nvidia_tile.clh): largest [entry][part] of the first, then of the second.
//
// An entry is one index along the first OUTER (default 1) of RANK axes. The innermost axis is contiguous, its elements a
// multiple of 4. Groups of GROUP; teams of work-items make a part each. table: groups of the first tensor, then for each
// tensor: work-items of a team, a power of two up to GROUP, parts of an entry, all parts, dims, the last in vectors of four,
// vectors of an entry, view.
// Error: none. What is not finite is left out.
#ifndef RANK
  #define RANK 2
#endif
#ifndef OUTER
  #define OUTER 1
#endif
#define GROUP 256
#define AT_ONCE 4
#include "vectors.clh"

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void matmul_gpu_largest(
    TENSOR(in0), TENSOR(in1), TENSOR(largest), __global const int* table) {
  __local float found[GROUP];
  const int second = get_group_id(0) >= table[0], id = get_local_id(0);
  __global const int* own = table + 1 + second * (3 + RANK + 1 + VIEW);
  __global const int* dims = own + 3;
  __global const int* view = dims + RANK + 1;
  __global const float* x = second ? BASE_OF(const float, in1) : BASE_OF(const float, in0);
  const int team = own[0], parts = own[1], count = dims[RANK], step = team * parts;
  const int made = (get_group_id(0) - second * table[0]) * (GROUP / team) + id / team;
  const int entry = min(made, own[2] - 1) / parts;
  int start[RANK];
  coordinates(entry, dims, 0, OUTER, start);
  float4 most = (float4)(0.0f);
  for (int v = made % parts * team + id % team; v < count; v += AT_ONCE * step) {
    float4 several[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
      int at[RANK];
      for (int axis = 0; axis < OUTER; axis++) at[axis] = start[axis];
      coordinates(min(v + i * step, count - 1), dims, OUTER, RANK, at);
      at[RANK - 1] *= 4;
      several[i] = fabs(LOAD4(x, element(view, at)));
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) most = several[i] > most && several[i] < (float4)(INFINITY) ? several[i] : most;
  }
  found[id] = fmax(fmax(most.x, most.y), fmax(most.z, most.w));
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int reach = team / 2; reach > 0; reach /= 2) {
    if (id % team < reach) found[id] = fmax(found[id], found[id + reach]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (id % team == 0 && made < own[2]) BASE_OF(float, largest)[(second ? table[3] : 0) + made] = found[id];
}
