// The largest finite magnitude of two float tensors, in 256 parts each: largest [2][256], for products of halves that have to
// be scaled (PRODUCT_F16X3 of nvidia_tile.clh).
//
// The innermost of the RANK axes is contiguous, its elements a multiple of 4. Grid: (256 * GROUP, 2), groups of GROUP.
// table, for each tensor: dims, the last in vectors of four, their product, view.
// Error: none. What is not finite is left out.
#ifndef RANK
  #define RANK 2
#endif
#define GROUP 256
#define AT_ONCE 4
#include "vectors.clh"
#include "group.clh"

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void matmul_gpu_largest(
    TENSOR(in0), TENSOR(in1), TENSOR(largest), __global const int* table) {
  __local float part[GROUP];
  const int second = get_group_id(1);
  __global const int* dims = table + second * (RANK + 1 + VIEW);
  __global const int* view = dims + RANK + 1;
  __global const float* x = second ? BASE_OF(const float, in1) : BASE_OF(const float, in0);
  float4 most = (float4)(0.0f);
  const int count = dims[RANK], all_items = get_global_size(0);
  for (int id = get_global_id(0); id < count; id += AT_ONCE * all_items) {
    float4 v[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
      int at[RANK];
      coordinates(min(id + i * all_items, count - 1), dims, 0, RANK, at);
      at[RANK - 1] *= 4;
      v[i] = fabs(LOAD4(x, element(view, at)));
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) most = v[i] > most && v[i] < (float4)(INFINITY) ? v[i] : most;
  }
  const float all = group_max(fmax(fmax(most.x, most.y), fmax(most.z, most.w)), part);
  if (get_local_id(0) == 0) BASE_OF(float, largest)[second * get_num_groups(0) + get_group_id(0)] = all;
}
