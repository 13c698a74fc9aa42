"""Whose work a candidate's is."""

import pytest

from kernelkb.measure.candidate_policy import (
    check_candidate_source,
    find_library_only_reason,
)

TORCH_KERNEL = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
)


@pytest.mark.defends(
    "H20",
    attack="call the library instead of computing",
    defence="source text and launched kernel names are compared with known libraries",
)
@pytest.mark.parametrize(
    "names",
    [
        [TORCH_KERNEL],
        [TORCH_KERNEL, "Memcpy DtoD (Device -> Device)"],
        ["sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x64_cublas"],
        ["nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT"],
        ["triton_red_fused__softmax_0"],
        ["void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128>>"],
        ["ampere_sgemm_128x64_nn"],
        ["volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn"],
        ["volta_hgemm_128x64_nn"],
        ["sgemm_32x32x32_NN_vec"],
        ["void cask_cudnn::computeOffsetsKernel(cask_cudnn::ComputeOffsetsParams)"],
        ["volta_dgemm_64x64_nt"],
        ["ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_nn"],
        ["ampere_scudnn_128x64_relu_xregs_large_nn_v1"],
        ["sm80_xmma_fprop_implicit_gemm_f16f16_f16f16_f32_nhwckrsc_nhwc_tilesize128x128x32"],
        ["cutlass_80_tensorop_f16_s16816gemm_relu_f16_256x128_32x3_nn_align8"],
        ["void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x5_nt_align4>"],
        ["void cutlass::Kernel<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(Params)"],
        ["void gemvNSP_kernel<float, float, float, float, 1, 32, 4, 1024>"],
        ["gemvNSP_kernel", "gemv2T_kernel_val"],
        ["void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>"],
        ["std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float, float>"],
        ["void gemmSN_TN_kernel<float, 128, 16, 2, 4, cublasGemvTensorStridedBatched<float>>"],
        ["void splitKreduce_kernel<32, 16, int, float, float, float>"],
        ["void cublasLt::splitKreduce_kernel<32, 16, int, float, float, float>"],
        ["void cublasLt::epilogue::impl::globalKernel<8, 32, float>"],
        ["void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>"],
        ["cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128"],
        [
            "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel::Params)"
        ],
        ["void (anonymous namespace)::cunn_SoftMaxForward<4, float, float, float>"],
        ["triton_poi_fused_add_0", "triton_per_fused_native_layer_norm_1"],
    ],
)
def test_kernels_of_a_library_are_recognised(names):
    assert "the library's" in find_library_only_reason(names)


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["Memset (Device)"],
        ["softmax_warp_per_row(float const*, float*, long, long)"],
        ["void cutlass::device_kernel<MyGemm>"],
        [TORCH_KERNEL, "add_kernel"],
        ["triton_softmax_kernel"],
        ["sgemm_naive(float const*, float const*, float*, int, int, int)"],
        ["dgemm_blocked(double const*, double const*, double*, int)"],
        ["gemv_warp_per_row(float const*, float const*, float*, int, int)"],
        ["hgemm_tiled"],
        ["sgemm_128x128(float const*, float const*, float*, int)"],
        ["sm90_hgemm_128x128(__half const*, __half const*, __half*, int)"],
        ["void mat::mul_kernel<float>(float const*, float const*, float*, int)"],
        ["void flat::add(float*, float const*, int)"],
        ["void add_rows<float>(at::GenericPackedTensorAccessor<float, 2ul>, at::Half*)"],
        ["void fused::splitKreduce(float*, int)"],
        ["beats_cublas(float const*, float*)", "faster_than_cudnn(float const*, float*)"],
        ["triton_per_row_softmax"],
        ["triton_red_sum"],
        ["void cutlass::Kernel<MyGemm>(MyGemm::Params)"],
    ],
)
def test_one_kernel_of_its_own_is_enough_and_none_seen_says_nothing(names):
    assert find_library_only_reason(names) is None


FORWARD = "class ModelNew({base}):\n    def forward(self, x):\n"


@pytest.mark.defends(
    "R6",
    attack="a subclass of the task's model that calls it",
    defence="source text",
)
@pytest.mark.parametrize(
    ("base", "body", "reason"),
    [
        ("Model", "        return x * 2\n", None),
        ("Model", "        return super().forward(x)\n", "calls the one of the task's Model"),
        ("task.Model", "        return Model.forward(self, x)\n", "calls the one of"),
    ],
)
def test_a_subclass_of_the_task_is_judged_by_whose_forward_computes(base, body, reason):
    reasons, _ = check_candidate_source(FORWARD.format(base=base) + body)

    assert (reason is None and reasons == []) or reason in reasons[0]


def test_a_subclass_without_a_forward_is_refused():
    reasons, _ = check_candidate_source("class ModelNew(Model):\n    pass\n")

    assert "inherits from the task's Model" in reasons[0]


@pytest.mark.parametrize(
    ("tried", "is_refused"),
    [("import quick", False), ("from quick import f", False), ("return kernel(x)", True)],
)
def test_an_import_that_may_fail_is_a_warning_and_a_kernel_that_may_fail_is_refused(
    tried, is_refused
):
    body = f"        try:\n            {tried}\n"
    body += "        except ImportError:\n            quick = None\n"
    reasons, warnings = check_candidate_source(FORWARD.format(base="Module") + body)

    assert any("its kernel fails" in reason for reason in reasons) == is_refused
    assert any("an import fails" in warning for warning in warnings) != is_refused


@pytest.mark.parametrize(("name", "is_refused"), [("Done", False), ("RuntimeError", True)])
def test_an_exception_of_its_own_that_ends_a_loop_is_no_failure_of_its_kernel(name, is_refused):
    body = f"        try:\n            kernel(x)\n            raise {name}('end')\n"
    body += f"        except {name}:\n            return x\n"
    reasons, _ = check_candidate_source(FORWARD.format(base="Module") + body)

    assert any("its kernel fails" in reason for reason in reasons) == is_refused
