-- Of release: where somebody waits.
for _, at in ipairs(resources) do
    if at.again then
        handed_on(at, holder)
    end
end
return answer_hand_on(holder)
